! ranks: 2
! MPI_TESTANY and MPI_TESTSOME count requests from one.
      PROGRAM TESTS
      USE MPI
      IMPLICIT NONE
      INTEGER IERR, ME, OTHER, REQS(3), IDX, N, LIST(3), STAT(8), TOTAL
      INTEGER STATS(MPI_STATUS_SIZE,3), I
      INTEGER, ASYNCHRONOUS :: V(3)
      LOGICAL DONE
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      OTHER = 1 - ME
      V = 0
      DO I = 1, 3
         CALL MPI_IRECV(V(I), 1, MPI_INTEGER, OTHER, I, MPI_COMM_WORLD,
     &                  REQS(I), IERR)
      END DO
C     Only the second message comes at first.
      CALL MPI_SEND(20, 1, MPI_INTEGER, OTHER, 2, MPI_COMM_WORLD, IERR)
      DONE = .FALSE.
      DO WHILE (.NOT. DONE)
         CALL MPI_TESTANY(3, REQS, IDX, DONE, STAT, IERR)
      END DO
      IF (IDX .NE. 2 .OR. STAT(MPI_TAG) .NE. 2) ERROR STOP 'the index'
      IF (V(2) .NE. 20) ERROR STOP 'the value'
      CALL MPI_TESTSOME(3, REQS, N, LIST, STATS, IERR)
      IF (N .NE. 0) ERROR STOP 'too many'
      CALL MPI_BARRIER(MPI_COMM_WORLD, IERR)
      CALL MPI_SEND(10, 1, MPI_INTEGER, OTHER, 1, MPI_COMM_WORLD, IERR)
      CALL MPI_SEND(30, 1, MPI_INTEGER, OTHER, 3, MPI_COMM_WORLD, IERR)
      TOTAL = 0
      DO WHILE (TOTAL .LT. 2)
         CALL MPI_TESTSOME(3, REQS, N, LIST, STATS, IERR)
         DO I = 1, N
            IF (V(LIST(I)) .NE. 10*LIST(I)) ERROR STOP 'a value'
            IF (STATS(MPI_TAG,I) .NE. LIST(I)) ERROR STOP 'a tag'
         END DO
         TOTAL = TOTAL + N
      END DO
      CALL MPI_TESTANY(3, REQS, IDX, DONE, MPI_STATUS_IGNORE, IERR)
      IF (.NOT. DONE .OR. IDX .NE. MPI_UNDEFINED) ERROR STOP 'the end'
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
