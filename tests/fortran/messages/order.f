! ranks: 2 4
! Messages of one sender arrive in order; tags choose among them.
      PROGRAM ORDER
      USE MPI_F08
      IMPLICIT NONE
      INTEGER ME, NP, I, K, V
      INTEGER, ALLOCATABLE :: LAST(:)
      TYPE(MPI_STATUS) STAT
      CALL MPI_INIT()
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP)
      IF (ME .NE. 0) THEN
         DO I = 1, 20
            CALL MPI_SEND(I, 1, MPI_INTEGER, 0, MOD(I,2),
     &                    MPI_COMM_WORLD)
         END DO
      ELSE
         ALLOCATE (LAST(NP-1))
C        The odd ones first, though they were sent in between.
         DO K = 1, -1, -1
            IF (K .LT. 0) EXIT
            LAST = K - 2
            IF (K .EQ. 0) LAST = 0
            DO I = 1, 10*(NP-1)
               CALL MPI_RECV(V, 1, MPI_INTEGER, MPI_ANY_SOURCE, K,
     &                       MPI_COMM_WORLD, STAT)
               IF (STAT%MPI_TAG .NE. K) ERROR STOP 'the tag'
               IF (V .NE. LAST(STAT%MPI_SOURCE) + 2) ERROR STOP 'order'
               LAST(STAT%MPI_SOURCE) = V
            END DO
            IF (ANY(LAST .NE. 20 - K)) ERROR STOP 'the last message'
         END DO
      END IF
      CALL MPI_FINALIZE()
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
