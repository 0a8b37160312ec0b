! ranks: 2 4
! A receiver asks for the length of each message and takes it then.
      PROGRAM PROBES
      USE MPI
      IMPLICIT NONE
      INTEGER IERR, ME, NP, I, N, K, SUM, SOURCE
      INTEGER STAT(MPI_STATUS_SIZE)
      DOUBLE PRECISION, ALLOCATABLE :: X(:)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      IF (ME .GT. 0) THEN
         ALLOCATE (X(3*ME))
         DO I = 1, 3*ME
            X(I) = ME + 0.5D0*I
         END DO
         CALL MPI_SEND(X, 3*ME, MPI_DOUBLE_PRECISION, 0, 10+ME,
     &                 MPI_COMM_WORLD, IERR)
      ELSE
         SUM = 0
         DO K = 1, NP - 1
            CALL MPI_PROBE(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
     &                     STAT, IERR)
            SOURCE = STAT(MPI_SOURCE)
            IF (STAT(MPI_TAG) .NE. 10 + SOURCE) ERROR STOP 'the tag'
            CALL MPI_GET_COUNT(STAT, MPI_DOUBLE_PRECISION, N, IERR)
            IF (N .NE. 3*SOURCE) ERROR STOP 'the length'
            ALLOCATE (X(N))
            CALL MPI_RECV(X, N, MPI_DOUBLE_PRECISION, SOURCE,
     &                    STAT(MPI_TAG), MPI_COMM_WORLD,
     &                    MPI_STATUS_IGNORE, IERR)
            DO I = 1, N
               IF (X(I) .NE. SOURCE + 0.5D0*I) ERROR STOP 'the data'
            END DO
            DEALLOCATE (X)
            SUM = SUM + SOURCE
         END DO
         IF (SUM .NE. NP*(NP-1)/2) ERROR STOP 'the sources'
      END IF
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
